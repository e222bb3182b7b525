CREATE TABLE supplier (
  supplier_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  country TEXT NOT NULL,
  `Organic Certified (Y/N)` INTEGER NOT NULL
);
CREATE TABLE product (
  product_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  `group` TEXT NOT NULL,
  supplier_id INTEGER NOT NULL REFERENCES supplier (supplier_id),
  `Unit Price (EUR)` REAL NOT NULL,
  weight_g INTEGER,
  discontinued INTEGER NOT NULL
);
CREATE TABLE customer (
  customer_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  city TEXT NOT NULL,
  country TEXT NOT NULL,
  segment TEXT NOT NULL,
  joined TEXT
);
CREATE TABLE employee (
  employee_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  role TEXT NOT NULL,
  manager_id INTEGER REFERENCES employee (employee_id),
  hired TEXT NOT NULL,
  `Salary (EUR/year)` INTEGER NOT NULL
);
CREATE TABLE sale (
  sale_id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customer (customer_id),
  employee_id INTEGER NOT NULL REFERENCES employee (employee_id),
  sold_on TEXT,
  status TEXT NOT NULL
);
CREATE TABLE sale_line (
  sale_id INTEGER NOT NULL REFERENCES sale (sale_id),
  `order` INTEGER NOT NULL,
  product_id INTEGER NOT NULL REFERENCES product (product_id),
  quantity INTEGER NOT NULL,
  `Discount (%)` REAL NOT NULL,
  PRIMARY KEY (sale_id, `order`)
);
CREATE TABLE shipment (
  shipment_id INTEGER PRIMARY KEY,
  sale_id INTEGER NOT NULL REFERENCES sale (sale_id),
  carrier TEXT NOT NULL,
  shipped_on TEXT NOT NULL,
  delivered_on TEXT,
  `Freight Cost (EUR)` REAL NOT NULL
);
CREATE TABLE review (
  review_id INTEGER PRIMARY KEY,
  product_id INTEGER NOT NULL REFERENCES product (product_id),
  customer_id INTEGER NOT NULL REFERENCES customer (customer_id),
  stars INTEGER NOT NULL,
  comment TEXT,
  written_on TEXT NOT NULL
);
