"""What the rules on runs read of a profile."""
