"""``python -m padenet`` is the command line."""

from padenet.cli import main

raise SystemExit(main())
