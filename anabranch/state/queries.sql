-- Every statement of state.db, named. Executed one by one.

-- name: create_part
CREATE TABLE IF NOT EXISTS part (name TEXT PRIMARY KEY, pid INTEGER NOT NULL, host TEXT NOT NULL, since TEXT NOT NULL, mark TEXT NOT NULL, seen TEXT NOT NULL, stopping TEXT)

-- name: create_part_end
CREATE TABLE IF NOT EXISTS part_end (name TEXT PRIMARY KEY, at TEXT NOT NULL, has_failed INTEGER NOT NULL)

-- name: create_phase
CREATE TABLE IF NOT EXISTS phase (part TEXT PRIMARY KEY, phase TEXT NOT NULL, detail TEXT NOT NULL, about TEXT NOT NULL, error TEXT, since TEXT NOT NULL, at TEXT NOT NULL)

-- name: create_progress
CREATE TABLE IF NOT EXISTS progress (source_table TEXT PRIMARY KEY, done INTEGER NOT NULL, total INTEGER, at TEXT NOT NULL)

-- name: create_position
CREATE TABLE IF NOT EXISTS position (kind TEXT PRIMARY KEY, text TEXT NOT NULL, commit_time INTEGER NOT NULL, at TEXT NOT NULL)

-- name: create_last_error
CREATE TABLE IF NOT EXISTS last_error (part TEXT PRIMARY KEY, exit_code INTEGER NOT NULL, message TEXT NOT NULL, at TEXT NOT NULL, retry TEXT NOT NULL, facts TEXT NOT NULL)

-- name: create_slow
CREATE TABLE IF NOT EXISTS slow (one INTEGER PRIMARY KEY CHECK (one = 1), count INTEGER NOT NULL, epochs INTEGER NOT NULL, reason TEXT NOT NULL, at TEXT NOT NULL)

-- name: create_how
CREATE TABLE IF NOT EXISTS how (name TEXT PRIMARY KEY, how TEXT NOT NULL, at TEXT NOT NULL)

-- name: create_wait
CREATE TABLE IF NOT EXISTS wait (part TEXT NOT NULL, server TEXT NOT NULL, text TEXT NOT NULL, since TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY (part, server))

-- name: create_counter
CREATE TABLE IF NOT EXISTS counter (part TEXT NOT NULL, name TEXT NOT NULL, value INTEGER NOT NULL, total INTEGER NOT NULL, since TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY (part, name))

-- name: create_gauge
CREATE TABLE IF NOT EXISTS gauge (part TEXT NOT NULL, name TEXT NOT NULL, value INTEGER NOT NULL, at TEXT NOT NULL, PRIMARY KEY (part, name))

-- name: create_sample
CREATE TABLE IF NOT EXISTS sample (kind TEXT NOT NULL, at REAL NOT NULL, text TEXT NOT NULL, kept INTEGER NOT NULL, PRIMARY KEY (kind, at))

-- name: create_passage
CREATE TABLE IF NOT EXISTS passage (id INTEGER PRIMARY KEY, part TEXT NOT NULL, after INTEGER NOT NULL, sequence INTEGER NOT NULL, upto TEXT NOT NULL, began INTEGER NOT NULL, ended INTEGER NOT NULL, facts TEXT NOT NULL)

-- name: create_passage_of_part
CREATE INDEX IF NOT EXISTS passage_of_part ON passage (part)

-- name: create_doing
CREATE TABLE IF NOT EXISTS doing (part TEXT NOT NULL, kind TEXT NOT NULL, names TEXT NOT NULL, since TEXT NOT NULL, PRIMARY KEY (part, kind))

-- name: put_part
INSERT INTO part VALUES (:name, :pid, :host, :at, :mark, :at, NULL)
ON CONFLICT (name) DO UPDATE SET pid = excluded.pid, host = excluded.host, since = excluded.since, mark = excluded.mark, seen = excluded.seen, stopping = NULL

-- name: keep_part
INSERT INTO part VALUES (:name, :pid, :host, :at, :mark, :at, NULL)
ON CONFLICT (name) DO UPDATE SET pid = excluded.pid, host = excluded.host, since = excluded.since, mark = excluded.mark, seen = excluded.seen, stopping = NULL WHERE part.since < excluded.since

-- name: restore_part
INSERT INTO part VALUES (:name, :pid, :host, :at, :mark, :at, NULL) ON CONFLICT (name) DO NOTHING

-- name: end_part
DELETE FROM part WHERE name = :name AND pid = :pid AND host = :host

-- name: see_part
UPDATE part SET seen = :at, stopping = coalesce(stopping, CASE WHEN :stops THEN :at END) WHERE name = :name AND pid = :pid AND host = :host

-- name: forget_part
DELETE FROM part WHERE name = :name AND pid = :pid

-- name: put_end
INSERT INTO part_end VALUES (:name, :at, :has_failed)
ON CONFLICT (name) DO UPDATE SET at = excluded.at, has_failed = excluded.has_failed

-- name: clear_end
DELETE FROM part_end WHERE name = :name

-- name: clear_end_of_another
DELETE FROM part_end WHERE name = :name AND EXISTS (SELECT 1 FROM part WHERE name = :name AND pid = :pid AND host = :host)

-- name: clear_ends
DELETE FROM part_end

-- name: begin_counts
UPDATE counter SET value = 0 WHERE part = :name

-- name: clear_gauges
DELETE FROM gauge WHERE part = :name

-- name: put_count
INSERT INTO counter VALUES (:part, :name, :value, :value, :at, :at)
ON CONFLICT (part, name) DO UPDATE SET total = total + excluded.value - value, value = excluded.value, at = excluded.at

-- name: reset_counts
UPDATE counter SET total = 0, since = :at

-- name: put_gauge
INSERT INTO gauge VALUES (:part, :name, :value, :at)
ON CONFLICT (part, name) DO UPDATE SET value = excluded.value, at = excluded.at

-- name: put_passage
INSERT INTO passage (part, after, sequence, upto, began, ended, facts) VALUES (:part, :after, :sequence, :upto, :began, :ended, :facts)

-- name: drop_passages
DELETE FROM passage WHERE part = :part AND id <= (SELECT id FROM passage WHERE part = :part ORDER BY id DESC LIMIT 1 OFFSET :kept)

-- name: put_how
INSERT INTO how VALUES (:name, :how, :at)
ON CONFLICT (name) DO UPDATE SET how = excluded.how, at = excluded.at

-- name: put_phase
INSERT INTO phase VALUES (:part, :phase, :detail, :about, :error, :at, :at)
ON CONFLICT (part) DO UPDATE SET phase = excluded.phase, detail = excluded.detail, about = excluded.about, error = excluded.error, at = excluded.at,
since = CASE WHEN phase.phase = excluded.phase AND phase.about = excluded.about THEN phase.since ELSE excluded.since END

-- name: clear_phase
DELETE FROM phase WHERE part = :name

-- name: put_draining
UPDATE phase SET phase = 'draining', at = :at WHERE phase = 'streaming'

-- name: put_progress
INSERT INTO progress VALUES (:table, :done, :total, :at)
ON CONFLICT (source_table) DO UPDATE SET done = excluded.done, total = excluded.total, at = excluded.at

-- name: put_position
INSERT INTO position VALUES (:kind, :text, :commit_time, :at)
ON CONFLICT (kind) DO UPDATE SET text = excluded.text, commit_time = excluded.commit_time, at = excluded.at

-- name: put_sample
INSERT OR REPLACE INTO sample VALUES (:kind, :moment, :text, :kept)

-- name: drop_samples
DELETE FROM sample WHERE kind = :kind AND (at < :moment - 21600 OR at > :moment OR (at < :moment - 900 AND NOT kept))

-- name: put_doing
INSERT INTO doing VALUES (:part, :kind, :names, :at)
ON CONFLICT (part, kind) DO UPDATE SET since = CASE WHEN doing.names = excluded.names THEN doing.since ELSE excluded.since END, names = excluded.names

-- name: end_doing
DELETE FROM doing WHERE part = :part AND kind = :kind

-- name: clear_doing
DELETE FROM doing WHERE part = :name

-- name: put_slow
INSERT INTO slow VALUES (1, :count, :epochs, :reason, :at)
ON CONFLICT (one) DO UPDATE SET count = excluded.count, epochs = excluded.epochs, reason = excluded.reason, at = excluded.at

-- name: put_wait
INSERT INTO wait VALUES (:part, :server, :text, :at, :at)
ON CONFLICT (part, server) DO UPDATE SET text = excluded.text, at = excluded.at

-- name: end_wait
DELETE FROM wait WHERE part = :part AND server = :server

-- name: clear_waits
DELETE FROM wait WHERE part = :name

-- name: put_last_error
INSERT INTO last_error VALUES (:part, :exit_code, :message, :at, :retry, :facts)
ON CONFLICT (part) DO UPDATE SET exit_code = excluded.exit_code, message = excluded.message, at = excluded.at, retry = excluded.retry, facts = excluded.facts

-- name: clear_last_error
DELETE FROM last_error

-- name: parts
SELECT part.name, pid, host, since, mark, seen, stopping, how.how FROM part LEFT JOIN how ON how.name = part.name AND how.at >= part.since ORDER BY part.name

-- name: phases
SELECT part, phase, detail, about, error, since, at FROM phase ORDER BY at, part

-- name: ends
SELECT name, at, has_failed FROM part_end ORDER BY at

-- name: counters
SELECT part, name, value, total, since, at FROM counter

-- name: gauges
SELECT part, name, value, at FROM gauge

-- name: progress
SELECT source_table, done, total, at FROM progress ORDER BY source_table

-- name: positions
SELECT kind, text, commit_time, at FROM position ORDER BY kind

-- name: samples
SELECT kind, at, text FROM sample ORDER BY kind, at

-- name: doing
SELECT part, kind, names, since FROM doing ORDER BY since

-- name: slow
SELECT count, epochs, reason, at FROM slow WHERE count > 0

-- name: waits
SELECT part, text, since, at FROM wait ORDER BY since

-- name: errors
SELECT part, exit_code, message, at, retry, facts FROM last_error ORDER BY at

-- name: passages
SELECT after, sequence, upto, began, ended, facts FROM passage WHERE part = :part AND after < :sequence AND sequence >= :sequence ORDER BY id

-- name: last_passages
SELECT * FROM (SELECT id, after, sequence, upto, began, ended, facts FROM passage WHERE part = :part ORDER BY id DESC LIMIT :limit) ORDER BY id
