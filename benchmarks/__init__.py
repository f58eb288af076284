"""What is measured against peers and limits: one command each; the last figures are in README.md."""
