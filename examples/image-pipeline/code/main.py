"""One image for all steps: a function runs the module of its own name."""

import importlib
import os

main = importlib.import_module(os.environ["FN_NAME"]).main
