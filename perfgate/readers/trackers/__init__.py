"""Files of experiment trackers, as they lie on the disk: TensorBoard, Weights & Biases, MLflow."""
