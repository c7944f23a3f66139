module first-node

go 1.24
