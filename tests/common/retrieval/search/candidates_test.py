import numpy as np

from common.retrieval.search.candidates import CandidateBlock, Candidates, Decision, Slack

TRUTH = np.array([[0.5, 0.1, 0.5, 0.9, 0.30001, 0.3]])  # similarities of one query


def decision_of(truth, limits, slack, asked=None):
    def exact(query, item):
        if asked is not None:
            asked.extend(item.tolist())
        return truth[query, item]

    zeros = np.zeros(truth.shape[1])
    widths = Slack(np.zeros(len(truth)), np.full(len(truth), slack / 2), zeros, zeros)
    return Decision(np.array(limits), widths, exact, tie_order=np.arange(truth.shape[1]))


def test_only_overlapping_bounds_are_asked_for_exact_values():
    asked, order = [], np.argsort(-TRUTH[0], kind="stable")
    candidates = Candidates(np.zeros(6, int), order, TRUTH[0][order], np.zeros(6, bool))
    decision_of(TRUTH, [4], slack=1e-3, asked=asked).best(candidates)
    assert sorted(asked) == [0, 2, 4, 5]  # 3 is alone at the top, 1 cannot be among the four best


def test_a_query_that_has_fewer_than_it_wants_still_takes_all(monkeypatch):
    monkeypatch.setattr("common.retrieval.search.candidates._PENDING_PER_QUERY", 1)
    truth = np.stack([np.linspace(0, 1, 40), np.linspace(1, 0, 40)]).astype(np.float32)
    block = CandidateBlock(decision_of(truth, [2, 3], slack=0.0), item_bits=8, num_tiles=2)
    query, item = np.r_[np.zeros(40, int), 1], np.r_[np.arange(40), 0]
    block.add(query, item, truth[query, item])
    assert block.threshold[0] > 0.9
    assert block.threshold[1] == -np.inf
    block.add(np.ones(2, int), np.array([1, 2]), truth[1, 1:3])
    best = block.finish()
    np.testing.assert_array_equal(best.item[best.query == 1], [0, 1, 2])
