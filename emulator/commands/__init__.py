"""The commands of ``atlas-emu``, a file each or a few that belong together, and what they share."""
