from experiments.site.markup import Markup, joined, tag


def test_texts_and_attributes_are_escaped_and_markup_is_not():
    assert tag("p", "a < b", tag("b", "&"), class_='"x"') == '<p class="&quot;x&quot;">a &lt; b<b>&amp;</b></p>'
    assert tag("img", src="x.png", alt="") == '<img src="x.png" alt="">'
    assert tag("td", 1.5, None, data_label="a b", tabindex=0) == '<td data-label="a b" tabindex="0">1.5</td>'
    assert tag("details", open=True, hidden=None) == "<details open></details>"
    assert joined(["<", Markup("<br>"), None], ", ") == "&lt;, <br>"
