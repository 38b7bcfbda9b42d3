"""What the benches share and no bench is: receiver, rows, processes, measures, figures. Holds no benchmark."""
