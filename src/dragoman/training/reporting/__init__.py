"""What a run reports: progress, metrics, the learning curve, TensorBoard, the model card."""
