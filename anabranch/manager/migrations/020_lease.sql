CREATE TABLE IF NOT EXISTS lease (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    token INTEGER NOT NULL,
    beat INTEGER NOT NULL,
    holder TEXT NOT NULL,
    home TEXT NOT NULL
);
INSERT INTO lease (one, token, beat, holder, home) VALUES (1, 0, 0, '', '');
