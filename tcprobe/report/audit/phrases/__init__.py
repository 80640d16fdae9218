"""Sentences of statements: findings, reasons, fixes, refusals; and their order, which rests on no sentence."""
