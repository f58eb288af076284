import pytest
from tensorflow import keras

from common.errors import InvalidInput
from common.losses import ContrastiveLoss, MarginLoss, TripletLoss, loss_of_kind
from common.losses.composed_loss import LossAround, LossOfParts


@keras.utils.register_keras_serializable(package="composed_loss_test")
class Doubled(LossAround):
    def call(self, embeddings, labels, references=None, training=None):
        return 2.0 * self.loss(embeddings, labels, references)


@keras.utils.register_keras_serializable(package="composed_loss_test")
class Last(LossOfParts):
    def call(self, embeddings, labels, references=None, training=None):
        return self.parts[-1](embeddings, labels, references)


def test_a_loss_around_another_normalizes_as_that_one_says():
    assert Doubled(ContrastiveLoss(normalization="clip")).normalization == "clip"
    assert Doubled(ContrastiveLoss(normalization="clip"), normalization="none").normalization == "none"


def test_parts_share_a_normalization_or_have_none():
    clip, unit = ContrastiveLoss(normalization="clip"), TripletLoss()
    assert Last([clip, ContrastiveLoss(normalization="clip")]).normalization == "clip"
    assert Last([clip, unit]).normalization == "none"


def test_proxies_are_those_of_what_is_called():
    margin = MarginLoss(num_classes=4)
    assert margin.proxy_variables
    for loss in (Doubled(margin), Last([TripletLoss(), margin])):
        assert [id(variable) for variable in loss.proxy_variables] == [id(x) for x in margin.proxy_variables]
        assert margin.weights[0] is loss.weights[0]


@pytest.mark.parametrize("losses", [(), TripletLoss(), ["triplet"], None])
def test_parts_are_losses(losses):
    with pytest.raises(InvalidInput, match="Invalid losses: received .*, expected a list of at least one metric loss"):
        Last(losses)


def test_a_loss_is_found_in_what_is_made_of_it():
    first, second = MarginLoss(), MarginLoss()
    loss = Last([TripletLoss(), Doubled(Last([first, second]))])
    assert loss_of_kind(loss, MarginLoss) is first
    assert loss_of_kind(loss, Last) is loss
    assert loss_of_kind(loss, ContrastiveLoss) is None
