"""How Alembic reaches the store: by the connection it is given, else by the settings."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from hexgen_celery.settings import load_settings
from hexgen_celery.store.engine import open_store
from hexgen_celery.store.models import Base


def run(connection: Connection) -> None:
    """Run what was asked for in one transaction, where the database can."""
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        render_as_batch=connection.dialect.name == "sqlite",
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    engine = open_store(load_settings(), writing=True)
    with engine.begin() as own:
        run(own)
    engine.dispose()
