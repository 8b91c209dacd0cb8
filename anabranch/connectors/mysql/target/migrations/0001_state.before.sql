-- makes: anabranch.meta
-- State of jobs at a MySQL or MariaDB target. Truth stands here, next to the data it speaks of; every primary key starts with
-- the job. Names of tables are in the form of a job file, so that one with a space at its end has quotes around it.
--
-- MySQL ends a transaction with each of these statements: every one can be repeated, and `meta` comes last.
-- A column of a key has up to 191 characters: MySQL 5.6 gives it 767 bytes, at four a character.
-- JSON stands in text, as MySQL 5.6 has no such type, and is compared as it was written. A text without a value is empty.

CREATE DATABASE IF NOT EXISTS `anabranch` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The job as last run, without secrets.
CREATE TABLE IF NOT EXISTS `anabranch`.`job` (
    `job`             VARCHAR(63) NOT NULL,
    `uuid`            TEXT,
    `source_identity` TEXT,
    `definition`      LONGTEXT,
    `facts`           LONGTEXT,
    PRIMARY KEY (`job`)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Where the target is, and who may move it (compare-and-set, the first statement of every epoch).
CREATE TABLE IF NOT EXISTS `anabranch`.`checkpoint` (
    `job`         VARCHAR(63) NOT NULL,
    `target`      VARCHAR(63) NOT NULL,
    `owner`       VARCHAR(63) NOT NULL DEFAULT '',
    `epoch`       BIGINT NOT NULL DEFAULT 0,
    `sequence`    BIGINT NOT NULL,
    `position`    LONGTEXT NOT NULL,              -- the source's native position at `sequence`
    `commit_time` BIGINT NOT NULL DEFAULT 0,      -- microseconds since 1970 UTC, the source's clock
    PRIMARY KEY (`job`, `target`)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS `anabranch`.`table_state` (
    `job`             VARCHAR(63) NOT NULL,
    `source_table`    VARCHAR(191) NOT NULL,
    `target_table`    VARCHAR(500) NOT NULL,
    `generation`      INT NOT NULL DEFAULT 0,
    `state`           VARCHAR(15) NOT NULL,
    `low`             LONGTEXT,
    `high`            LONGTEXT,
    `reason`          LONGTEXT,
    `rows_loaded`     BIGINT NOT NULL DEFAULT 0,
    `changes_applied` BIGINT NOT NULL DEFAULT 0,
    `schema`          LONGTEXT,                   -- the source's definition that the load used
    `schema_digest`   CHAR(32),                   -- of that text: who has read it does not read it again
    `facts`           LONGTEXT,
    PRIMARY KEY (`job`, `source_table`)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS `anabranch`.`load_chunk` (
    `job`          VARCHAR(63) NOT NULL,
    `source_table` VARCHAR(191) NOT NULL,
    `generation`   INT NOT NULL,
    `number`       INT NOT NULL,
    `lower`        LONGTEXT,                      -- key values as a JSON list, exclusive; NULL = open
    `upper`        LONGTEXT,                      -- inclusive
    `rows`         BIGINT,                        -- NULL until the chunk is done
    `low`          LONGTEXT,
    `high`         LONGTEXT,
    PRIMARY KEY (`job`, `source_table`, `generation`, `number`)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Disagreements that a policy has settled.
CREATE TABLE IF NOT EXISTS `anabranch`.`conflict` (
    `job`          VARCHAR(63) NOT NULL,
    `number`       BIGINT NOT NULL AUTO_INCREMENT,
    `sequence`     BIGINT NOT NULL,
    `position`     LONGTEXT NOT NULL,
    `commit_time`  BIGINT NOT NULL,
    `source_table` VARCHAR(191) NOT NULL,
    `target_table` VARCHAR(500) NOT NULL,
    `key`          LONGTEXT NOT NULL,
    `operation`    VARCHAR(15) NOT NULL,
    `kind`         VARCHAR(15) NOT NULL,
    `policy`       VARCHAR(31) NOT NULL,
    `decision`     VARCHAR(15) NOT NULL,
    `before`       LONGTEXT,
    `after`        LONGTEXT,
    `found`        LONGTEXT,
    `noted_at`     DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    PRIMARY KEY (`job`, `number`),
    UNIQUE KEY (`number`)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Transactions that a person has told a job to leave out.
CREATE TABLE IF NOT EXISTS `anabranch`.`skipped` (
    `job`         VARCHAR(63) NOT NULL,
    `sequence`    BIGINT NOT NULL,
    `position`    LONGTEXT NOT NULL,
    `commit_time` BIGINT NOT NULL,
    `changes`     LONGTEXT NOT NULL,
    `asked_at`    DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    PRIMARY KEY (`job`, `sequence`)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Row changes that are set aside.
CREATE TABLE IF NOT EXISTS `anabranch`.`set_aside` (
    `job`          VARCHAR(63) NOT NULL,
    `number`       BIGINT NOT NULL AUTO_INCREMENT,
    `sequence`     BIGINT NOT NULL,
    `position`     LONGTEXT NOT NULL,
    `commit_time`  BIGINT NOT NULL,
    `source_table` VARCHAR(191) NOT NULL,
    `target_table` VARCHAR(500) NOT NULL,
    `key`          LONGTEXT NOT NULL,
    `operation`    VARCHAR(15) NOT NULL,
    `before`       LONGTEXT,
    `after`        LONGTEXT,
    `reason`       LONGTEXT NOT NULL,
    `keys_off`     TINYINT NOT NULL,
    `wish`         VARCHAR(15) NOT NULL DEFAULT '',
    `discarded_at` DATETIME(6),
    `set_aside_at` DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    `unconverted`  LONGTEXT NOT NULL,             -- columns whose values could not be converted, and what stands there
    PRIMARY KEY (`job`, `number`),
    UNIQUE KEY (`number`),
    KEY (`job`, `wish`)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What happened to jobs.
CREATE TABLE IF NOT EXISTS `anabranch`.`trace` (
    `job`       VARCHAR(63) NOT NULL,
    `id`        VARCHAR(100) NOT NULL,
    `at`        DATETIME(6) NOT NULL,
    `level`     TEXT NOT NULL,
    `event`     TEXT NOT NULL,
    `task`      TEXT NOT NULL,
    `host`      TEXT NOT NULL,
    `pid`       INT NOT NULL,
    `state`     TEXT,
    `sub_state` TEXT,
    `code`      TEXT,
    `side`      TEXT,
    `message`   LONGTEXT,
    `facts`     LONGTEXT,
    PRIMARY KEY (`job`, `id`)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Definitions of keys that a load has taken off its target tables, until they are back.
CREATE TABLE IF NOT EXISTS `anabranch`.`taken_off` (
    `job`          VARCHAR(63) NOT NULL,
    `source_table` VARCHAR(191) NOT NULL,
    `kind`         VARCHAR(31) NOT NULL,
    `table_schema` VARCHAR(64) NOT NULL,
    `table_name`   VARCHAR(64) NOT NULL,
    `name`         VARCHAR(64) NOT NULL,
    `definition`   LONGTEXT NOT NULL,
    PRIMARY KEY (`job`, `source_table`, `kind`, `table_schema`, `table_name`, `name`)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What has been carried out here: number, stage, name, release and time of each migration.
CREATE TABLE IF NOT EXISTS `anabranch`.`meta` (
    `id`         TINYINT NOT NULL,
    `version`    INT NOT NULL,
    `migrations` LONGTEXT NOT NULL,
    PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

INSERT INTO `anabranch`.`meta` (`id`, `version`, `migrations`)
SELECT 1, 1, '[]' FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM `anabranch`.`meta`);
