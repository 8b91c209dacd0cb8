"""`python -m anabranch`."""

from anabranch.cli.main import main

main()
