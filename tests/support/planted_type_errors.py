"""Mistakes that a type checker finds, each with the error of mypy; the lint fails where it misses one."""

import numpy as np

import deep_metric_learning as dml

dml.TripletLoss(margin="0.2")  # type: ignore[arg-type]
dml.TripletLoss(normalization="uint")  # type: ignore[arg-type]
dml.TripletLoss(mining="semi_hart")  # type: ignore[arg-type]
dml.GeneralizedSumPooling(num_prototype=8)  # type: ignore[call-arg]
dml.GeneralizedSumPooling(8, data_format="channel_last")  # type: ignore[arg-type]
dml.ProxyAnchorLoss(100, 128.0)  # type: ignore[arg-type]
dml.ProxyAnchorLoss(100, 128, 1, 0.1)  # type: ignore[misc]  # the old order of arguments
dml.MetricModel(None, dml.ContrastiveLoss(), proxy_multipler=3.0)  # type: ignore[call-arg]
dml.evaluate_retrieval(np.ones([4, 2]), [0, 0, 1, 1])  # no mistake
dml.evaluate_retrieval(np.ones([4, 2]), labels=[0, 0, 1, 1])  # type: ignore[call-arg]
dml.NoSuchLoss()  # type: ignore[attr-defined]
