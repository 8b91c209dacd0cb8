-- makes: anabranch.pair_note
-- Deletes that a job of a pair has applied here ('deleted'), until its twin has cleared them; ids of its twin's notes that it has
-- cleared ('cleared').

CREATE TABLE IF NOT EXISTS `anabranch`.`pair_note` (
    `job`          VARCHAR(63) NOT NULL,
    `kind`         VARCHAR(7) NOT NULL,
    `id`           VARCHAR(32) NOT NULL,
    `target_table` VARCHAR(191),
    `key`          LONGTEXT,
    `age`          LONGTEXT,
    PRIMARY KEY (`job`, `kind`, `id`)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
