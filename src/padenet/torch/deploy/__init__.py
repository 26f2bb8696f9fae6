"""Units that leave training: as plain operations for exporters, and as fixed functions."""
