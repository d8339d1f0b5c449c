# The README's first example:
#   docker build -t vhagar . && docker run --rm vhagar
# Your own model, in the current folder, where results are written, too:
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD":/work vhagar inspect model.onnx
FROM python:3.12-slim
WORKDIR /vhagar
COPY . .
# PyTorch without CUDA, which is a tenth of the size; its version ends in "+cpu" and so wins over PyPI's.
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu "torch>=2.5,<2.14" \
 && pip install --no-cache-dir .
# Somebody without a home folder draws figures, too.
ENV MPLCONFIGDIR=/tmp/matplotlib
WORKDIR /work
ENTRYPOINT ["vhagar"]
CMD ["verify", "/vhagar/examples/mnist_3x10.onnx", "--perturbation", "occlusion(14,14,5)", \
     "--source", "2", "--target", "3", "--dataset", "/vhagar/examples/mnist_images.npz", \
     "--timeout", "40", "--plot", "witness.png"]
