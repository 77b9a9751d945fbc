"""Validates a compose file against the schema of the specification, which the package docker-compose contains."""

import importlib.util
import json
import pathlib
import sys

import jsonschema
import yaml

package = pathlib.Path(importlib.util.find_spec("compose").origin).parent
schema = json.loads((package / "config/compose_spec.json").read_text())
document = yaml.safe_load(pathlib.Path(sys.argv[1]).read_text())
problems = list(jsonschema.Draft7Validator(schema).iter_errors(document))
for problem in problems:
    print("/".join(map(str, problem.path)), problem.message)
sys.exit(1 if problems else 0)
