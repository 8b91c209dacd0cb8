-- makes: anabranch.cutover
-- Notes of cut-overs, one before and one behind each step.

CREATE TABLE IF NOT EXISTS `anabranch`.`cutover` (
    `job`      VARCHAR(63) NOT NULL,
    `number`   BIGINT NOT NULL,
    `step`     VARCHAR(31) NOT NULL,
    `phase`    VARCHAR(15) NOT NULL,
    `noted_at` BIGINT NOT NULL,                  -- microseconds since 1970 UTC, by the clock of who wrote it
    `facts`    LONGTEXT NOT NULL,
    PRIMARY KEY (`job`, `number`)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
