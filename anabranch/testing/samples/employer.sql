-- An employer: few tables, much history, keys of several columns, everything hangs on the employee by ON DELETE CASCADE.
CREATE TABLE employees (
  emp_no INT NOT NULL,
  birth_date DATE NOT NULL,
  first_name VARCHAR(14) NOT NULL,
  last_name VARCHAR(16) NOT NULL,
  gender ENUM('M','F') NOT NULL,
  hire_date DATE NOT NULL,
  PRIMARY KEY (emp_no)
) DEFAULT CHARSET=utf8mb4;
CREATE TABLE departments (
  dept_no CHAR(4) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  dept_name VARCHAR(40) NOT NULL,
  PRIMARY KEY (dept_no),
  UNIQUE KEY dept_name (dept_name)
) DEFAULT CHARSET=utf8mb4;
CREATE TABLE dept_manager (
  emp_no INT NOT NULL,
  dept_no CHAR(4) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  from_date DATE NOT NULL,
  to_date DATE NOT NULL,
  FOREIGN KEY (emp_no) REFERENCES employees (emp_no) ON DELETE CASCADE,
  FOREIGN KEY (dept_no) REFERENCES departments (dept_no),
  PRIMARY KEY (emp_no, dept_no)
) DEFAULT CHARSET=utf8mb4;
CREATE TABLE dept_emp (
  emp_no INT NOT NULL,
  dept_no CHAR(4) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  from_date DATE NOT NULL,
  to_date DATE NOT NULL,
  FOREIGN KEY (emp_no) REFERENCES employees (emp_no) ON DELETE CASCADE,
  FOREIGN KEY (dept_no) REFERENCES departments (dept_no),
  PRIMARY KEY (emp_no, dept_no)
) DEFAULT CHARSET=utf8mb4;
CREATE TABLE titles (
  emp_no INT NOT NULL,
  title VARCHAR(50) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  from_date DATE NOT NULL,
  to_date DATE,
  FOREIGN KEY (emp_no) REFERENCES employees (emp_no) ON DELETE CASCADE,
  PRIMARY KEY (emp_no, title, from_date)
) DEFAULT CHARSET=utf8mb4;
CREATE TABLE salaries (
  emp_no INT NOT NULL,
  salary INT NOT NULL,
  from_date DATE NOT NULL,
  to_date DATE NOT NULL,
  CHECK (salary > 0), CHECK (from_date <= to_date),
  FOREIGN KEY (emp_no) REFERENCES employees (emp_no) ON DELETE CASCADE,
  PRIMARY KEY (emp_no, from_date)
) DEFAULT CHARSET=utf8mb4;
CREATE OR REPLACE VIEW current_dept_emp AS
  SELECT l.emp_no, dept_no, l.from_date, l.to_date FROM dept_emp l WHERE l.to_date > '9000-01-01';
