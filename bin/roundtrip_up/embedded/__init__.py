"""The embedded servers: PostgreSQL and Valkey as children of ours, with their data folders and the user they run as."""
