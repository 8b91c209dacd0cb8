CREATE TABLE IF NOT EXISTS oidc_session (
    digest TEXT PRIMARY KEY,
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    name TEXT NOT NULL,
    claims TEXT NOT NULL,
    csrf TEXT NOT NULL,
    created TEXT NOT NULL,
    seen TEXT NOT NULL,
    ends TEXT NOT NULL
);
