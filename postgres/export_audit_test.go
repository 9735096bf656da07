package postgres

// AuditIn lets a test audit what its own transaction has broken and takes back.
var AuditIn = auditIn
