-- makes: anabranch.applied
-- Transactions of the source that are applied beyond the checkpoint ([apply] commit_order = "relaxed"). A release that does not
-- know this table would apply them again: whoever writes here first raises the version of the state to this number (migrations.py).

CREATE TABLE IF NOT EXISTS `anabranch`.`applied` (
    `job`      VARCHAR(63) NOT NULL,
    `target`   VARCHAR(63) NOT NULL,
    `sequence` BIGINT NOT NULL,
    `position` LONGTEXT NOT NULL,
    PRIMARY KEY (`job`, `target`, `sequence`)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
