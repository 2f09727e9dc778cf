"""How well a representation will serve a task, before anything is trained on it: LogME, LEEP, H-score, CKA."""
