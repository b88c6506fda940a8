"""Reports of a run: progress, metrics, learning curve, TensorBoard, model card."""
