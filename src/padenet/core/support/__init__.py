"""What every part needs: lazy names, optional packages, errors about names, whole files."""
