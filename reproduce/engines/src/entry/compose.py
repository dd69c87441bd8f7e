"""Writes AReaL's configuration as one file, the release's two with values set in them and all variables resolved:
compose.py FOLDER TARGET KEY=VALUE..."""

import sys

from omegaconf import OmegaConf

folder, target, *overrides = sys.argv[1:]
files = [OmegaConf.load(f"{folder}/{name}.yaml") for name in ("_base", "paragrpo_8b")]
config = OmegaConf.merge(*files, OmegaConf.from_dotlist(overrides))
del config["defaults"]
OmegaConf.resolve(config)
OmegaConf.save(config, target)
