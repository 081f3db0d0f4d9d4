package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
)

// archive puts files below the folder base: for Windows a zip, else a tar.gz. It returns the archive's name.
func (b *binary) archive(base string, files []file) (name string, data []byte, err error) {
	if b.os == "windows" {
		data, err = b.zip(base, files)
		return base + ".zip", data, err
	}
	data, err = b.tar(base, files)
	return base + ".tar.gz", data, err
}

func (b *binary) tar(base string, files []file) ([]byte, error) {
	var buf bytes.Buffer
	z, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: base + "/" + f.name, Size: int64(len(f.data)),
			Mode: int64(f.mode), ModTime: b.at, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	err = z.Close()
	return buf.Bytes(), err
}

func (b *binary) zip(base string, files []file) ([]byte, error) {
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, f := range files {
		h := &zip.FileHeader{Name: base + "/" + f.name, Method: zip.Deflate, Modified: b.at}
		h.SetMode(f.mode)
		one, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := one.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return buf.Bytes(), err
}
