import ast
import collections
import importlib

import tensorflow as tf

from tests.support.sources import PACKAGES, ROOT, module_name

keras = tf.keras
NAME = "deep_metric_learning"


def registered_classes() -> list[type]:
    """All classes below a decorator `register_keras_serializable`."""
    found = []
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        names = [
            node.name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ClassDef)
            and any("register_keras_serializable" in ast.unparse(decorator) for decorator in node.decorator_list)
        ]
        found += [getattr(importlib.import_module(module_name(path)), name) for name in names]
    return found


def test_every_registered_class_has_the_name_of_the_project():
    classes = registered_classes()
    assert len(classes) >= 45
    names = {cls: keras.utils.get_registered_name(cls) for cls in classes}
    assert {cls: name for cls, name in names.items() if name != f"{NAME}>{cls.__name__}"} == {}
    assert [name for name, count in collections.Counter(names.values()).items() if count > 1] == []
    assert [cls for cls, name in names.items() if keras.utils.get_registered_object(name) is not cls] == []
