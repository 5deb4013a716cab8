"""What holds for the repository as a whole: names, pins, docker-compose.yml."""
