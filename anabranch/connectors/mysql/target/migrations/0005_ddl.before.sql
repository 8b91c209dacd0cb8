-- makes: anabranch.ddl
-- What became of the source's changes of definitions: a row for each of its transactions and table.

CREATE TABLE IF NOT EXISTS `anabranch`.`ddl` (
    `job`          VARCHAR(63) NOT NULL,
    `number`       BIGINT NOT NULL AUTO_INCREMENT,
    `sequence`     BIGINT NOT NULL,
    `position`     LONGTEXT NOT NULL,
    `commit_time`  BIGINT NOT NULL,               -- microseconds since 1970 UTC, the source's clock
    `source_table` VARCHAR(191) NOT NULL,
    `target_table` VARCHAR(500) NOT NULL,
    `statement`    LONGTEXT NOT NULL,
    `source_user`  TEXT,
    `setting`      TEXT NOT NULL,
    `action`       VARCHAR(31) NOT NULL,
    `outcome`      VARCHAR(15) NOT NULL,
    `why`          LONGTEXT NOT NULL,
    `version`      INT NOT NULL,                  -- of the source's definition that the target's table has afterwards
    `digest`       VARCHAR(63) NOT NULL,          -- of that definition
    `by`           TEXT NOT NULL,
    `noted_at`     DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    PRIMARY KEY (`job`, `number`),
    UNIQUE KEY (`number`),
    UNIQUE KEY (`job`, `source_table`, `sequence`)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
