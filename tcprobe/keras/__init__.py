"""What is known of Keras' layers: settings, output shapes, products."""
