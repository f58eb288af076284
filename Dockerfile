# All commands on NVIDIA GPUs: docker build -t dml . ; docker run --gpus=all dml doctor (docs/devices.md)
ARG TENSORFLOW=2.21.0
FROM tensorflow/tensorflow:${TENSORFLOW}-gpu
WORKDIR /dml
COPY setup.py pyproject.toml README.md LICENSE ./
COPY common common
COPY gsp_dml gsp_dml
COPY ccp_dml ccp_dml
COPY milbich_dml milbich_dml
COPY deep_metric_learning deep_metric_learning
COPY experiments experiments
COPY photo_search photo_search
# The image's TensorFlow fulfils the package's requirement, and stays.
RUN python -m pip install --no-cache-dir .
WORKDIR /work
ENTRYPOINT ["dml"]
