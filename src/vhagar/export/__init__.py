"""Problems as VNN-LIB and ONNX files for other verifiers."""
