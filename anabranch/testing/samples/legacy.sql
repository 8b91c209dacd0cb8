-- What twenty years of MySQL leave behind: latin1, MyISAM, zero dates, tables without keys, names that are words of SQL,
-- widths and zero filling, defaults of old.
CREATE TABLE `order` (
  `id` int(11) NOT NULL auto_increment,
  `group` varchar(32) NOT NULL default '',
  `key` char(8) NOT NULL default '',
  `select` text,
  `when` datetime NOT NULL default '0000-00-00 00:00:00',
  `from` date default '0000-00-00',
  `desc` enum('','new','done','geprüft') NOT NULL default 'new',
  `option` set('a','b','with space') NOT NULL default '',
  PRIMARY KEY (`id`),
  KEY `group` (`group`(10)), KEY `key` (`key`, `when`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COMMENT='Bestellungen, seit 1999';
CREATE TABLE `tbl Kunden-Stamm` (
  `Kunden Nr.` int(6) unsigned zerofill NOT NULL,
  `Größe "cm"` float(7,3) default NULL,
  `100%` tinyint(4) NOT NULL default '0',
  `Straße` varchar(60) NOT NULL default 'unbekannt',
  `e-mail` varchar(60) default NULL,
  `geändert` timestamp NOT NULL default CURRENT_TIMESTAMP on update CURRENT_TIMESTAMP,
  `angelegt` timestamp NOT NULL default '0000-00-00 00:00:00',
  PRIMARY KEY (`Kunden Nr.`)
) ENGINE=MyISAM DEFAULT CHARSET=latin1;
CREATE TABLE `log` (
  `at` datetime NOT NULL,
  `user` varchar(16) default NULL,
  `what` varchar(255) NOT NULL default '',
  `ip` int(10) unsigned default NULL
) ENGINE=InnoDB DEFAULT CHARSET=latin1;
CREATE TABLE `Session` (
  `ID` char(32) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `data` mediumblob,
  `hits` bigint(20) unsigned NOT NULL default '0',
  `flags` bit(12) NOT NULL default b'0',
  `year` year(4) default NULL,
  `price` double(10,2) unsigned default '0.00',
  `rest` decimal(30,12) default NULL,
  `age` time default NULL,
  UNIQUE KEY `hits` (`hits`, `ID`),
  PRIMARY KEY (`ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1;
CREATE TABLE `session` (
  `ID` int(11) NOT NULL default '0',
  `parent` int(11) default NULL,
  PRIMARY KEY (`ID`)
) ENGINE=MyISAM DEFAULT CHARSET=latin1;
CREATE TRIGGER `log insert` BEFORE INSERT ON `log` FOR EACH ROW SET NEW.`what` = TRIM(NEW.`what`);
CREATE VIEW `view` AS SELECT `id`, `group` FROM `order`;
