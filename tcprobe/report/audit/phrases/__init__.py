"""Turn statements into sentences (findings, reasons, fixes, refusals), and order statements without their words."""
