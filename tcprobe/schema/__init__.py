"""What passes between the rooms: tables and their columns, profiles, findings, models. Data, no logic."""
