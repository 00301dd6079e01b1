rf_divide.sv
