import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.training import RetrievalEvaluation, check_callback_order

keras = tf.keras


def evaluation():
    return RetrievalEvaluation(lambda: {"MAP@R": 0.5})


@pytest.mark.parametrize(
    "waiting", [keras.callbacks.EarlyStopping("MAP@R"), keras.callbacks.ReduceLROnPlateau("MAP@R", patience=2)]
)
def test_a_callback_that_waits_stands_behind_the_one_that_measures(waiting):
    check_callback_order([evaluation(), waiting])
    message = (
        rf"callbacks: received .{type(waiting).__name__}.monitor='MAP@R'.* before the .* RetrievalEvaluation first"
    )
    with pytest.raises(InvalidInput, match=message):
        check_callback_order([waiting, evaluation()])


@pytest.mark.parametrize("monitor", ["loss", "val_loss", "P@1 here"])
def test_what_fit_itself_measures_can_be_monitored_anywhere(monitor):
    check_callback_order([keras.callbacks.EarlyStopping(monitor), evaluation()], ["P@1 here"])


@pytest.mark.parametrize(
    "callbacks", [None, [], keras.callbacks.TerminateOnNaN(), [keras.callbacks.EarlyStopping("x")]]
)
def test_without_an_evaluation_everything_is_left_to_keras(callbacks):
    check_callback_order(callbacks)
