-- The demo's shop on MariaDB: ten tables, 200,000 rows, made by the server itself. What happens in it later: writer.py.

CREATE TABLE customers (
  id            INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  email         VARCHAR(120) NOT NULL,
  name          VARCHAR(80) CHARACTER SET latin1 NOT NULL,
  status        ENUM('new', 'active', 'gold', 'blocked') NOT NULL DEFAULT 'new',
  interests     SET('garden', 'kitchen', 'sport', 'books', 'music') NOT NULL DEFAULT '',
  is_newsletter TINYINT(1) NOT NULL DEFAULT 0,
  flags         BIT(8) NOT NULL DEFAULT b'0',
  credit        DECIMAL(12, 2) NOT NULL DEFAULT 0,
  born          DATE NULL,
  preferences   JSON NULL,
  secret        VARBINARY(16) NULL,
  created_at    TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  UNIQUE KEY by_email (email)
) ENGINE = InnoDB;

CREATE TABLE addresses (
  id           INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  customer_id  INT UNSIGNED NOT NULL,
  kind         ENUM('home', 'work', 'delivery') NOT NULL,
  street       VARCHAR(100) NOT NULL,
  city         VARCHAR(60) NOT NULL,
  latitude     DOUBLE NULL,
  longitude    DOUBLE NULL,
  KEY by_city (city),
  CONSTRAINT address_of FOREIGN KEY (customer_id) REFERENCES customers (id) ON DELETE CASCADE
) ENGINE = InnoDB;

CREATE TABLE categories (
  id        MEDIUMINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  parent_id MEDIUMINT UNSIGNED NULL,
  name      VARCHAR(60) NOT NULL,
  CONSTRAINT category_within FOREIGN KEY (parent_id) REFERENCES categories (id) ON DELETE SET NULL
) ENGINE = InnoDB;

CREATE TABLE products (
  id          BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  sku         CHAR(10) CHARACTER SET ascii NOT NULL,
  category_id MEDIUMINT UNSIGNED NULL,
  title       VARCHAR(120) NOT NULL,
  description TEXT NULL,
  price       DECIMAL(10, 2) NOT NULL,
  weight      FLOAT NULL,
  rating      DOUBLE NULL,
  since       YEAR NOT NULL,
  thumbnail   BLOB NULL,
  UNIQUE KEY by_sku (sku),
  KEY by_title (title),
  CONSTRAINT product_in FOREIGN KEY (category_id) REFERENCES categories (id) ON DELETE SET NULL
) ENGINE = InnoDB;

CREATE TABLE stock (
  product_id BIGINT UNSIGNED NOT NULL,
  warehouse  CHAR(3) NOT NULL,
  quantity   INT NOT NULL,
  counted_at TIME(3) NULL,
  PRIMARY KEY (product_id, warehouse),
  CONSTRAINT stock_of FOREIGN KEY (product_id) REFERENCES products (id) ON DELETE CASCADE
) ENGINE = InnoDB;

CREATE TABLE orders (
  id          BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  customer_id INT UNSIGNED NOT NULL,
  reference   BINARY(8) NOT NULL,
  state       ENUM('open', 'paid', 'sent', 'returned') NOT NULL DEFAULT 'open',
  total       DECIMAL(12, 2) NOT NULL,
  note        MEDIUMTEXT NULL,
  ordered_at  DATETIME(6) NOT NULL,
  UNIQUE KEY by_reference (reference),
  KEY by_day (ordered_at),
  CONSTRAINT ordered_by FOREIGN KEY (customer_id) REFERENCES customers (id)
) ENGINE = InnoDB;

CREATE TABLE order_items (
  order_id   BIGINT NOT NULL,
  line       TINYINT UNSIGNED NOT NULL,
  product_id BIGINT UNSIGNED NOT NULL,
  quantity   SMALLINT UNSIGNED NOT NULL,
  price      DECIMAL(10, 2) NOT NULL,
  PRIMARY KEY (order_id, line),
  CONSTRAINT item_of FOREIGN KEY (order_id) REFERENCES orders (id) ON DELETE CASCADE ON UPDATE CASCADE,
  CONSTRAINT item_is FOREIGN KEY (product_id) REFERENCES products (id)
) ENGINE = InnoDB;

CREATE TABLE payments (
  id       BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  order_id BIGINT NOT NULL,
  method   ENUM('card', 'invoice', 'transfer') NOT NULL,
  amount   DECIMAL(12, 2) NOT NULL,
  paid_on  DATE NOT NULL,
  CONSTRAINT pays FOREIGN KEY (order_id) REFERENCES orders (id) ON DELETE CASCADE ON UPDATE CASCADE
) ENGINE = InnoDB;

-- One row per transaction of the writer, with its clock (UTC): the demo measures latency with it.
CREATE TABLE ledger (
  writer  TINYINT UNSIGNED NOT NULL,
  number  BIGINT UNSIGNED NOT NULL,
  event   VARCHAR(20) NOT NULL,
  written DATETIME(6) NOT NULL,
  PRIMARY KEY (writer, number)
) ENGINE = InnoDB;

-- No key at all; equal rows occur.
CREATE TABLE event_log (
  happened DATETIME NOT NULL,
  event    VARCHAR(20) NOT NULL,
  detail   VARCHAR(60) NULL
) ENGINE = InnoDB;

INSERT INTO customers (email, name, status, interests, is_newsletter, flags, credit, born, preferences, secret, created_at)
SELECT CONCAT('customer', seq, '@example.org'),
       CONCAT(ELT(1 + seq % 7, 'Zoë', 'José', 'Anna', 'Jürgen', 'Maëlle', 'Bob', 'Åsa'), ' ',
              ELT(1 + seq % 5, 'Müller', 'Núñez', 'Smith', 'Sørensen', 'Lefèvre')),
       1 + seq % 4, seq % 32, seq % 2, seq % 256, (seq * 37 % 100000) / 100,
       IF(seq % 10 = 0, NULL, DATE_ADD('1940-01-01', INTERVAL seq * 7919 % 25000 DAY)),
       IF(seq % 3 = 0, NULL, JSON_OBJECT('theme', ELT(1 + seq % 2, 'light', 'dark'), 'size', seq % 5, 'tags',
                                         JSON_ARRAY(seq % 9, 'é', NULL))),
       IF(seq % 4 = 0, NULL, UNHEX(MD5(seq))),
       TIMESTAMPADD(MICROSECOND, seq * 7654321 % 1000000, TIMESTAMPADD(MINUTE, seq, '2023-04-01 00:00:00'))
FROM seq_1_to_20000;

INSERT INTO addresses (customer_id, kind, street, city, latitude, longitude)
SELECT 1 + seq % 20000, 1 + seq % 3, CONCAT(ELT(1 + seq % 3, 'Hauptstraße', 'Rue de la Gare', 'High Street'), ' ', seq % 200),
       ELT(1 + seq % 6, 'Köln', 'Paris', 'Łódź', 'Αθήνα', '東京', 'Oslo'),
       IF(seq % 8 = 0, NULL, SIN(seq) * 90), IF(seq % 8 = 0, NULL, COS(seq) * 180)
FROM seq_1_to_24900;

INSERT INTO categories (id, parent_id, name)
SELECT seq, IF(seq <= 10, NULL, 1 + seq % 10), CONCAT('Category ', seq) FROM seq_1_to_100;

INSERT INTO products (sku, category_id, title, description, price, weight, rating, since, thumbnail)
SELECT CONCAT('SKU', LPAD(seq, 7, '0')), IF(seq % 50 = 0, NULL, 1 + seq % 100),
       CONCAT(ELT(1 + seq % 4, 'Chair', 'Lamp ☀', 'Book', 'Kettle'), ' no. ', seq),
       IF(seq % 6 = 0, NULL, CONCAT('First line\nsecond line with a\ttab and a \\ ', REPEAT('· ', seq % 60))),
       (100 + seq * 131 % 50000) / 100, IF(seq % 9 = 0, NULL, seq / 7), IF(seq % 5 = 0, NULL, SQRT(seq) / 20),
       1990 + seq % 36, IF(seq % 5 = 0, UNHEX(REPEAT(MD5(seq), 4)), NULL)
FROM seq_1_to_10000;

INSERT INTO stock (product_id, warehouse, quantity, counted_at)
SELECT 1 + (seq - 1) DIV 2, IF(seq % 2, 'OST', 'WST'), seq * 17 % 900, IF(seq % 7, SEC_TO_TIME(seq % 86400 + 0.125), NULL)
FROM seq_1_to_20000;

INSERT INTO orders (customer_id, reference, state, total, note, ordered_at)
SELECT 1 + seq * 7 % 20000, UNHEX(LPAD(HEX(seq), 16, '0')), 1 + seq % 4, (seq * 271 % 90000) / 100,
       IF(seq % 12, NULL, CONCAT('Please ring twice — ', seq)),
       TIMESTAMPADD(MICROSECOND, seq * 1234567 % 1000000, TIMESTAMPADD(MINUTE, seq * 11, '2024-01-01 08:00:00'))
FROM seq_1_to_30000;

INSERT INTO order_items (order_id, line, product_id, quantity, price)
SELECT 1 + (seq - 1) DIV 2, 1 + (seq - 1) % 2, 1 + seq * 13 % 10000, 1 + seq % 5, (100 + seq * 131 % 50000) / 100
FROM seq_1_to_60000;

INSERT INTO payments (order_id, method, amount, paid_on)
SELECT seq, 1 + seq % 3, (seq * 271 % 90000) / 100, DATE_ADD('2024-01-02', INTERVAL seq * 11 DIV 1440 DAY) FROM seq_1_to_25000;

INSERT INTO event_log (happened, event, detail)
SELECT TIMESTAMPADD(SECOND, seq DIV 4, '2024-06-01 00:00:00'), ELT(1 + seq % 3, 'login', 'search', 'logout'),
       IF(seq % 2, CONCAT('session ', seq DIV 8), NULL)
FROM seq_1_to_10000
