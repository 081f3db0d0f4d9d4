// Package schematest gives tests the file of a store that is empty and has its tables already.
package schematest
