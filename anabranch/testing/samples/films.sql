-- A film rental: many small tables around three busy ones, foreign keys everywhere, triggers that keep a copy.
CREATE TABLE language (
  language_id TINYINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name CHAR(20) NOT NULL,
  last_update TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE category (
  category_id TINYINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name VARCHAR(25) NOT NULL COMMENT 'as on the shelf'
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE film (
  film_id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT,
  title VARCHAR(128) NOT NULL,
  description TEXT NULL,
  release_year YEAR NULL,
  language_id TINYINT UNSIGNED NOT NULL,
  rental_rate DECIMAL(4,2) NOT NULL DEFAULT 4.99,
  length SMALLINT UNSIGNED NULL,
  replacement_cost DECIMAL(5,2) NOT NULL DEFAULT 19.99 CHECK (replacement_cost >= 0),
  rating ENUM('G','PG','PG-13','R','NC-17') DEFAULT 'G',
  special_features SET('Trailers','Commentaries','Deleted Scenes','Behind the Scenes') NULL,
  trailer BLOB NULL,
  facts JSON NULL,
  last_update TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (film_id),
  KEY by_title (title), KEY by_length (length DESC, title(10)), FULLTEXT KEY words (description),
  CONSTRAINT film_speaks FOREIGN KEY (language_id) REFERENCES language (language_id) ON UPDATE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='what may be rented';
CREATE TABLE film_text (
  film_id SMALLINT UNSIGNED NOT NULL PRIMARY KEY,
  title VARCHAR(255) NOT NULL,
  description TEXT,
  FULLTEXT KEY words (title, description)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE actor (
  actor_id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  first_name VARCHAR(45) NOT NULL,
  last_name VARCHAR(45) NOT NULL,
  KEY by_name (last_name, first_name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE film_actor (
  actor_id SMALLINT UNSIGNED NOT NULL,
  film_id SMALLINT UNSIGNED NOT NULL,
  PRIMARY KEY (actor_id, film_id),
  CONSTRAINT plays FOREIGN KEY (actor_id) REFERENCES actor (actor_id) ON DELETE RESTRICT ON UPDATE CASCADE,
  CONSTRAINT played_in FOREIGN KEY (film_id) REFERENCES film (film_id) ON DELETE CASCADE ON UPDATE CASCADE
) ENGINE=InnoDB;
CREATE TABLE store (
  store_id TINYINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  manager_id TINYINT UNSIGNED NULL UNIQUE,
  place VARCHAR(50) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE staff (
  staff_id TINYINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name VARCHAR(45) NOT NULL,
  picture BLOB NULL,
  store_id TINYINT UNSIGNED NOT NULL,
  active BOOLEAN NOT NULL DEFAULT TRUE,
  password VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  CONSTRAINT works_in FOREIGN KEY (store_id) REFERENCES store (store_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
ALTER TABLE store ADD CONSTRAINT managed_by FOREIGN KEY (manager_id) REFERENCES staff (staff_id);
CREATE TABLE customer (
  customer_id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  store_id TINYINT UNSIGNED NOT NULL,
  first_name VARCHAR(45) NOT NULL,
  last_name VARCHAR(45) NOT NULL,
  email VARCHAR(50) DEFAULT NULL,
  create_date DATETIME NOT NULL,
  UNIQUE KEY by_email (email),
  CONSTRAINT goes_to FOREIGN KEY (store_id) REFERENCES store (store_id) ON UPDATE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE inventory (
  inventory_id MEDIUMINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  film_id SMALLINT UNSIGNED NOT NULL,
  store_id TINYINT UNSIGNED NOT NULL,
  KEY by_store_and_film (store_id, film_id),
  CONSTRAINT copy_of FOREIGN KEY (film_id) REFERENCES film (film_id),
  CONSTRAINT kept_in FOREIGN KEY (store_id) REFERENCES store (store_id)
) ENGINE=InnoDB;
CREATE TABLE rental (
  rental_id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  rental_date DATETIME NOT NULL,
  inventory_id MEDIUMINT UNSIGNED NOT NULL,
  customer_id SMALLINT UNSIGNED NOT NULL,
  return_date DATETIME DEFAULT NULL,
  staff_id TINYINT UNSIGNED NOT NULL,
  last_update TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
  UNIQUE KEY once (rental_date, inventory_id, customer_id),
  CONSTRAINT rents FOREIGN KEY (customer_id) REFERENCES customer (customer_id),
  CONSTRAINT rented FOREIGN KEY (inventory_id) REFERENCES inventory (inventory_id)
) ENGINE=InnoDB;
CREATE TABLE payment (
  payment_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  customer_id SMALLINT UNSIGNED NOT NULL,
  rental_id INT DEFAULT NULL,
  amount DECIMAL(5,2) NOT NULL,
  payment_date DATETIME(6) NOT NULL,
  CONSTRAINT paid CHECK (amount >= 0 AND amount < 1000),
  CONSTRAINT paid_by FOREIGN KEY (customer_id) REFERENCES customer (customer_id),
  CONSTRAINT paid_for FOREIGN KEY (rental_id) REFERENCES rental (rental_id) ON DELETE SET NULL ON UPDATE CASCADE
) ENGINE=InnoDB;
CREATE TRIGGER film_added AFTER INSERT ON film FOR EACH ROW
  INSERT INTO film_text (film_id, title, description) VALUES (NEW.film_id, NEW.title, NEW.description);
CREATE TRIGGER film_changed AFTER UPDATE ON film FOR EACH ROW
  UPDATE film_text SET title = NEW.title, description = NEW.description WHERE film_id = OLD.film_id;
CREATE TRIGGER film_removed AFTER DELETE ON film FOR EACH ROW DELETE FROM film_text WHERE film_id = OLD.film_id;
CREATE VIEW customer_list AS SELECT customer_id, CONCAT(first_name, ' ', last_name) AS name FROM customer;
CREATE VIEW sales_by_store AS SELECT store_id, SUM(amount) AS total FROM payment JOIN customer USING (customer_id) GROUP BY store_id;
CREATE PROCEDURE film_in_stock(IN wanted INT, OUT found INT) READS SQL DATA
  SELECT COUNT(*) INTO found FROM inventory WHERE film_id = wanted;
CREATE FUNCTION rentals_of(who INT) RETURNS INT READS SQL DATA
  RETURN (SELECT COUNT(*) FROM rental WHERE customer_id = who);
