module github.com/onejob/onejob

go 1.26

require github.com/go-json-experiment/json v1.27.2

require github.com/google/uuid v1.6.0
