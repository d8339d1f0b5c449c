# docker build -t vhagar . && docker run --rm vhagar
# runs the first example of the README; docker run --rm -v "$PWD":/work vhagar vhagar --help
FROM python:3.12-slim
WORKDIR /vhagar
COPY . .
# PyTorch without CUDA, which is a tenth of the size.
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu "torch>=2.5,<2.14" \
 && pip install --no-cache-dir .
WORKDIR /work
CMD ["vhagar", "verify", "/vhagar/examples/mnist_3x10.onnx", "--perturbation", "occlusion(14,14,5)", \
     "--source", "2", "--target", "3", "--timeout", "40", "--plot", "witness.png"]
