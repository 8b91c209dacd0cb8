-- Every statement of state.db, named. Executed one by one.

-- name: create_part
CREATE TABLE IF NOT EXISTS part (name TEXT PRIMARY KEY, pid INTEGER NOT NULL, host TEXT NOT NULL, since TEXT NOT NULL)

-- name: create_phase
CREATE TABLE IF NOT EXISTS phase (one INTEGER PRIMARY KEY CHECK (one = 1), phase TEXT NOT NULL, detail TEXT NOT NULL, at TEXT NOT NULL)

-- name: create_progress
CREATE TABLE IF NOT EXISTS progress (source_table TEXT PRIMARY KEY, done INTEGER NOT NULL, total INTEGER, at TEXT NOT NULL)

-- name: create_position
CREATE TABLE IF NOT EXISTS position (kind TEXT PRIMARY KEY, text TEXT NOT NULL, commit_time INTEGER NOT NULL, at TEXT NOT NULL)

-- name: create_last_error
CREATE TABLE IF NOT EXISTS last_error (one INTEGER PRIMARY KEY CHECK (one = 1), part TEXT NOT NULL, exit_code INTEGER NOT NULL, message TEXT NOT NULL, at TEXT NOT NULL, retry TEXT NOT NULL)

-- name: create_slow
CREATE TABLE IF NOT EXISTS slow (one INTEGER PRIMARY KEY CHECK (one = 1), count INTEGER NOT NULL, epochs INTEGER NOT NULL, reason TEXT NOT NULL, at TEXT NOT NULL)

-- name: create_how
CREATE TABLE IF NOT EXISTS how (name TEXT PRIMARY KEY, how TEXT NOT NULL, at TEXT NOT NULL)

-- name: create_wait
CREATE TABLE IF NOT EXISTS wait (part TEXT NOT NULL, server TEXT NOT NULL, text TEXT NOT NULL, since TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY (part, server))

-- name: put_part
INSERT INTO part VALUES (:name, :pid, :host, :at)
ON CONFLICT (name) DO UPDATE SET pid = excluded.pid, host = excluded.host, since = excluded.since

-- name: keep_part
INSERT INTO part VALUES (:name, :pid, :host, :at)
ON CONFLICT (name) DO UPDATE SET pid = excluded.pid, host = excluded.host, since = excluded.since WHERE part.since < excluded.since

-- name: end_part
DELETE FROM part WHERE name = :name AND pid = :pid AND host = :host

-- name: put_how
INSERT INTO how VALUES (:name, :how, :at)
ON CONFLICT (name) DO UPDATE SET how = excluded.how, at = excluded.at

-- name: put_phase
INSERT INTO phase VALUES (1, :phase, :detail, :at)
ON CONFLICT (one) DO UPDATE SET phase = excluded.phase, detail = excluded.detail, at = excluded.at

-- name: put_draining
UPDATE phase SET phase = 'draining', at = :at WHERE phase = 'streaming'

-- name: put_progress
INSERT INTO progress VALUES (:table, :done, :total, :at)
ON CONFLICT (source_table) DO UPDATE SET done = excluded.done, total = excluded.total, at = excluded.at

-- name: put_position
INSERT INTO position VALUES (:kind, :text, :commit_time, :at)
ON CONFLICT (kind) DO UPDATE SET text = excluded.text, commit_time = excluded.commit_time, at = excluded.at

-- name: put_slow
INSERT INTO slow VALUES (1, :count, :epochs, :reason, :at)
ON CONFLICT (one) DO UPDATE SET count = excluded.count, epochs = excluded.epochs, reason = excluded.reason, at = excluded.at

-- name: put_wait
INSERT INTO wait VALUES (:part, :server, :text, :at, :at)
ON CONFLICT (part, server) DO UPDATE SET text = excluded.text, at = excluded.at

-- name: end_wait
DELETE FROM wait WHERE part = :part AND server = :server

-- name: put_last_error
INSERT INTO last_error VALUES (1, :part, :exit_code, :message, :at, :retry)
ON CONFLICT (one) DO UPDATE SET part = excluded.part, exit_code = excluded.exit_code, message = excluded.message, at = excluded.at, retry = excluded.retry

-- name: clear_last_error
DELETE FROM last_error

-- name: parts
SELECT part.name, pid, host, since, how.how FROM part LEFT JOIN how ON how.name = part.name AND how.at >= part.since ORDER BY part.name

-- name: phase
SELECT phase, detail, at FROM phase

-- name: progress
SELECT source_table, done, total, at FROM progress ORDER BY source_table

-- name: positions
SELECT kind, text, commit_time, at FROM position ORDER BY kind

-- name: slow
SELECT count, epochs, reason, at FROM slow WHERE count > 0

-- name: waits
SELECT part, text, since, at FROM wait ORDER BY since

-- name: last_error
SELECT part, exit_code, message, at, retry FROM last_error
