run_report.sv
