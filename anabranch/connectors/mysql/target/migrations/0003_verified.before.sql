-- makes: anabranch.verified
-- The last result of `verify --watch` for each table.

CREATE TABLE IF NOT EXISTS `anabranch`.`verified` (
    `job`          VARCHAR(63) NOT NULL,
    `source_table` VARCHAR(191) NOT NULL,
    `verified_at`  BIGINT NOT NULL,               -- microseconds since 1970 UTC, by the clock of who wrote it
    `facts`        LONGTEXT NOT NULL,
    PRIMARY KEY (`job`, `source_table`)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
